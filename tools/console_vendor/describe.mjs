// Writes beside the bundle: codemirror.licences.txt, the licence of every package in it, and vendor.json, which names
// them and gives the sums of the files. Called by tools/vendor_console.sh: node describe.mjs BUILD TARGET.

import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const [build, target] = process.argv.slice(2);
const inputs = Object.keys(JSON.parse(readFileSync(join(build, "meta.json"), "utf8")).inputs);
const names = [...new Set(inputs.map((input) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input)?.[1]).filter(Boolean))].sort();

const packages = names.map((name) => {
  const folder = join(build, "node_modules", name);
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  if (!file) {
    throw new Error(`${name} has no licence file`);
  }
  return { name, version, licence: license, text: readFileSync(join(folder, file), "utf8").trim() };
});

const rule = "-".repeat(100);
const licences = packages.map(({ name, version, licence, text }) => `${name} ${version} (${licence})\n\n${text}\n`).join(`\n${rule}\n\n`);
writeFileSync(join(target, "codemirror.licences.txt"), licences);

const sums = ["codemirror.js", "codemirror.licences.txt"].map((file) => {
  const sha256 = createHash("sha256").update(readFileSync(join(target, file))).digest("hex");
  return { file, sha256 };
});
const described = { builtBy: "tools/vendor_console.sh", files: sums, packages: packages.map(({ text, ...rest }) => rest) };
writeFileSync(join(target, "vendor.json"), `${JSON.stringify(described, null, 2)}\n`);
