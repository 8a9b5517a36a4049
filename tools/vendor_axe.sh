#!/bin/sh
# Puts axe-core, by which tests look for pages that not everybody can use, into tests/cep_manager/axe with its licences,
# and writes vendor.json with version and SHA-256 sums. Needs npm and the network; it is no part of what is installed.
set -eu
version=4.14.1
integrity="sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
target=$(cd "$(dirname "$0")/../tests/cep_manager/axe" && pwd)
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cd "$build"
npm pack --silent "axe-core@$version" > /dev/null
got="sha512-$(openssl dgst -sha512 -binary "axe-core-$version.tgz" | base64 -w 0)"
[ "$got" = "$integrity" ] || { echo "axe-core $version is not what it was: $got" >&2; exit 1; }
tar xzf "axe-core-$version.tgz"
cp package/axe.min.js package/LICENSE package/LICENSE-3RD-PARTY.txt "$target"
cd "$target"
{
  printf '{\n  "builtBy": "tools/vendor_axe.sh",\n  "package": {"name": "axe-core", "version": "%s", "licence": "MPL-2.0"},\n  "files": {\n' "$version"
  sha256sum axe.min.js LICENSE LICENSE-3RD-PARTY.txt | sed 's/^\([0-9a-f]*\)  \(.*\)$/    "\2": "\1",/; $ s/,$//'
  printf '  }\n}\n'
} > vendor.json
