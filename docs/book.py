"""What the book takes from outside of docs/, as MkDocs asks for it.

Pages link to files of the repository by relative paths, which is what a Git host wants. Here, whatever is linked to comes
along under `repository/`: a page if it is Markdown, otherwise the text of the file on a page of its own. Decisions are
listed by their titles.
"""

import logging
import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#|/)([^)#\s]+)(#[^)\s]*)?(?=\))")
# What `rustdoc` reads after the language, and MkDocs does not.
RUSTDOC = re.compile(r"(?m)(?<=^```rust),.*$")
log = logging.getLogger("mkdocs.hooks.book")


def on_files(files, config):
    lines = [f"- [{title(name)}]({posixpath.basename(name)})" for name in decisions()]
    index = "# Decisions\n\nWhy it is built this way, in the order it was decided.\n\n" + "\n".join(lines) + "\n"
    files.append(File.generated(config, "adr/index.md", content=index))
    waiting = [file.src_uri for file in files.documentation_pages() if file.src_uri != "adr/index.md"]
    while waiting:
        page = in_repository(waiting.pop())
        for target, _ in LINK.findall((ROOT / page).read_text()):
            path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
            uri = in_book(path)
            if path.startswith("docs/") or files.get_file_from_path(uri):
                continue
            if not (ROOT / path).is_file():
                log.warning("`%s` links to `%s`, which is no file of the repository", page, target)
                continue
            text = (ROOT / path).read_text()
            if path.endswith(".md"):
                waiting.append(uri)
            else:
                language = {".rs": "rust", ".yaml": "yaml"}.get(Path(path).suffix, "text")
                text = f"# {path}\n\n~~~{language}\n{text}~~~\n"
            files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    here = page.file.src_uri
    if not (ROOT / in_repository(here)).is_file():
        return markdown
    origin = posixpath.dirname(in_repository(here))

    def leads(link):
        path = posixpath.normpath(posixpath.join(origin, link[1]))
        return posixpath.relpath(in_book(path), posixpath.dirname(here) or ".") + (link[2] or "")

    return RUSTDOC.sub("", LINK.sub(leads, markdown))


def decisions():
    return sorted(f"adr/{file.name}" for file in (ROOT / "docs/adr").glob("[0-9]*.md"))


def title(name):
    return (ROOT / "docs" / name).read_text().splitlines()[0].removeprefix("# ")


def in_repository(uri):
    """The path of a page's file; that of the book's own folder for whatever is in it."""
    return uri.removeprefix("repository/") if uri.startswith("repository/") else f"docs/{uri}"


def in_book(path):
    """Where a file of the repository is in the book."""
    if path == "docs/adr":
        return "adr/index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"repository/{path}" if path.endswith(".md") else f"repository/{path}.md"
