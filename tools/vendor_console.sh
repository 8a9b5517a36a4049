#!/bin/sh
# Builds what the console takes from others into cep_manager/web/console/static/vendor: one bundle, its licences, and
# vendor.json with names, versions and SHA-256 sums. Needs npm and the network; nothing of it is needed at run time.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
target="$here/../cep_manager/web/console/static/vendor"
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cp "$here/console_vendor/package.json" "$here/console_vendor/package-lock.json" "$here/console_vendor/codemirror.js" "$build"
cd "$build"
npm ci --ignore-scripts --no-audit --no-fund
# esbuild's platform binary is a package of its own, so that no install script has to run.
node_modules/.bin/esbuild codemirror.js --bundle --minify --format=esm --target=es2022 --legal-comments=none \
  --metafile=meta.json --outfile="$target/codemirror.js"
node "$here/console_vendor/describe.mjs" "$build" "$target"
