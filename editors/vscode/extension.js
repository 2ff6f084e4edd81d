// Starts the language server of AFL, `afl lsp`, and connects VS Code to it.

const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = () => {
  const command = workspace.getConfiguration("afl").get("path");
  const server = { command, args: ["lsp"] };
  client = new LanguageClient("afl", "AFL", server, { documentSelector: [{ language: "afl" }] });
  return client.start();
};

exports.deactivate = () => client?.stop();
