"""Prints every GraphQL document that the installed wandb package can send, one JSON object a line.

Documents are strings in its Python files and in the program that it brings. Python puts some of them together from parts,
so a fragment that a document uses and lacks is taken from the same file, or from wherever the package defines it.
"""

import ast
import json
import pathlib
import re

import wandb

FOLDER = pathlib.Path(wandb.__file__).parent
BEGIN = re.compile(r"\s*(#[^\n]*\n\s*)*((query|mutation|fragment)\s+\w+|(query\s*)?\{\s*\w+\s*[({])")
FRAGMENT = re.compile(r"\bfragment\s+(\w+)\s+on\s+\w+[^{]*\{")
SPREAD = re.compile(r"\.\.\.\s*(?!on\b)(\w+)")
NAME = re.compile(r"\b(query|mutation)\s+(\w+)")
# What the package replaces before it sends a document.
PLACE = re.compile(r"%s|\b_[A-Z]\w*_\b|\bID_(TYPE|VALUE)\b")
EMBEDDED = re.compile(rb"\n(?:query|mutation) \w+ ?[({].*?\n}\n(?:\s*fragment \w+ on \w+ \{.*?\n}\n)*", re.S)


def texts(tree):
    """Strings, and whether something is put into them before they are used."""
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value for part in node.values if isinstance(part, ast.Constant)), True
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield filled(node.value)


def filled(text):
    """A string with nothing in the places where something is put."""
    if "{{" in text:
        return text.replace("{}", "").replace("{{", "{").replace("}}", "}"), True
    is_partial = PLACE.search(text) is not None or re.search(r"^\s*\{\}", text, re.M) is not None
    return PLACE.sub("", text), is_partial


def block(text, start):
    """From `start` to the brace that closes the first one opened there."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0 and text[at] == "}":
            return text[start : at + 1]
    return text[start:]


def found():
    """Where, and what: whole documents and lone fragments."""
    for path in sorted(FOLDER.rglob("*.py")):
        if "vendor" in path.parts:
            continue
        for text, is_partial in texts(ast.parse(path.read_text(encoding="utf-8"))):
            if BEGIN.match(text) and "{" in text:
                yield str(path.relative_to(FOLDER)), text, is_partial
    binary = FOLDER / "bin" / "wandb-core"
    for match in EMBEDDED.finditer(binary.read_bytes()):
        yield "bin/wandb-core", match.group().decode(), False


def main():
    all_found = list(found())
    known = {}
    for where, text, _ in all_found:
        for match in FRAGMENT.finditer(text):
            known.setdefault(match.group(1), {})[where] = block(text, match.start())
    seen = set()
    for where, text, is_partial in all_found:
        if not re.search(r"\b(query|mutation)\b", text) and not text.lstrip().startswith("{"):
            continue
        while True:
            lacking = set(SPREAD.findall(text)) - set(FRAGMENT.findall(text))
            parts = [known[name].get(where) or next(iter(known[name].values())) for name in sorted(lacking) if name in known]
            if not parts:
                break
            text += "\n" + "\n".join(parts)
        if text not in seen:
            seen.add(text)
            name = NAME.search(text)
            name = name.group(2) if name else ""
            print(json.dumps({"where": where, "name": name, "text": text, "is_partial": is_partial}))


main()
