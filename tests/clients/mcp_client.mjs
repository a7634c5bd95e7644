// Uses the tools of a harness with the official MCP SDK for TypeScript. Arguments: the folder with
// node_modules, then `http URL KEY`, or `stdio COMMAND…`.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, kind, ...rest] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${folder}/package.json`));
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");

const transport =
  kind === "stdio"
    ? new StdioClientTransport({ command: rest[0], args: rest.slice(1), env: process.env, stderr: "ignore" })
    : new StreamableHTTPClientTransport(new URL(rest[0]), {
        requestInit: { headers: { authorization: `Bearer ${rest[1]}` } },
      });
const client = new Client({ name: "test", version: "1" });
await client.connect(transport);
assert.equal(client.getServerVersion().name, "tandem");

const { tools } = await client.listTools();
assert.deepEqual(tools.map((tool) => tool.name), ["bash", "count"]);
const counted = await client.callTool({ name: "count", arguments: { text: "a b c" } });
assert.deepEqual(counted.structuredContent, { words: 3 });
const refused = await client.callTool({ name: "count", arguments: { text: "forbidden" } });
assert.equal(refused.isError, true);
await assert.rejects(client.callTool({ name: "nothing", arguments: {} }), /no tool `nothing`/);

const told = [];
const ran = await client.callTool({ name: "bash", arguments: { command: "sleep 1.2; cat given.txt" } }, undefined, {
  onprogress: (progress) => told.push(progress.message),
});
assert.equal(ran.content[0].text, "given");
assert.ok(told.length >= 2, told);

const stop = new AbortController();
const slow = client.callTool({ name: "bash", arguments: { command: "sleep 600" } }, undefined, { signal: stop.signal });
setTimeout(() => stop.abort("enough"), 500);
await assert.rejects(slow, /enough/);
const after = await client.callTool({ name: "bash", arguments: { command: "echo after" } });
assert.equal(after.content[0].text, "after");
if (kind === "http") await transport.terminateSession();
await client.close();
console.log("ok");
