"""LibreOffice's help as Debian packages it: fetch the packages, read their pages, give the paragraphs by their ids."""

import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

WAYS_OUT = (
    "give the two packages with --deb EN.deb TARGET.deb, or your own text, one sentence per line, with --corpus PREFIX"
)

# Program code is the same in every language.
CODE_CLASSES = {"code", "codeintable", "smathcode"}


def package_name(language: str) -> str:
    """Return the Debian package that holds the help in a language."""
    return "libreoffice-help-" + {"en": "en-us"}.get(language, language)


def fetch_package(language: str, folder: Path) -> Path:
    """Download the help in a language with apt-get, no root needed, and return the package's path in `folder`."""
    name = package_name(language)
    for package in sorted(folder.glob(f"{name}_*.deb")):
        return package
    if shutil.which("apt-get") is None:
        raise SystemExit(f"apt-get, which downloads {name}, was not found: {WAYS_OUT}.")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        apt = subprocess.run(["apt-get", "download", name], cwd=scratch, capture_output=True, text=True)
        packages = list(Path(scratch).glob("*.deb"))
        if apt.returncode or not packages:
            said = (apt.stderr.strip().splitlines() or ["it said nothing"])[-1].rstrip(".")
            raise SystemExit(
                f"apt-get could not download {name} ({said}): refresh its lists with apt-get update, or {WAYS_OUT}."
            )
        return packages[0].rename(folder / packages[0].name)


def read_pages(package: Path) -> Iterator[tuple[str, str]]:
    """Give the name, without the language's folder, and the HTML of every help page in a Debian package."""
    if shutil.which("dpkg-deb") is None:
        raise SystemExit("dpkg-deb, which unpacks the help, was not found: install dpkg, or use --corpus PREFIX.")
    if not package.is_file():
        raise SystemExit(f"{package} is not there: --deb takes two Debian packages, English first.")
    with tempfile.TemporaryFile() as unpacked:
        # dpkg-deb knows every compression a Debian package may have; Python's tarfile does not.
        dpkg = subprocess.run(
            ["dpkg-deb", "--fsys-tarfile", package], stdout=unpacked, stderr=subprocess.PIPE, text=True
        )
        if dpkg.returncode:
            raise SystemExit(f"{package} cannot be unpacked ({dpkg.stderr.strip()}): get it again.")
        unpacked.seek(0)
        with tarfile.open(fileobj=unpacked) as archive:
            for member in archive:
                _, _, page = member.name.partition("/text/")
                if member.isfile() and page.endswith(".html"):
                    yield page, archive.extractfile(member).read().decode("utf-8", errors="replace")


class _Paragraphs(HTMLParser):
    """Collects the text of each element whose id starts with par_ or hd_.

    Where the help has variants of a phrase (for macOS, for Calc, ...: hidden spans inside a `switchinline`), a reader
    sees one of them: here the default one, or the first where there is no default.
    """

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.paragraphs: dict[str, str] = {}
        self._id = self._tag = None
        self._text: list[str] = []
        # One entry per open span: None, a list of variants (id, text) for a switch, or for a variant its id and the
        # text that goes on after it.
        self._spans: list[None | list | tuple[str, list[str]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        element_id = attributes.get("id") or ""
        if self._id is None:
            code = attributes.get("class") in CODE_CLASSES
            if element_id.startswith(("par_", "hd_")) and not code:
                self._id, self._tag, self._text, self._spans = element_id, tag, [], []
        elif tag == "br":
            self._text.append(" ")
        elif tag == "span":
            if attributes.get("class") == "switchinline":
                self._spans.append([])
            elif "hidden" in attributes:
                self._spans.append((element_id, self._text))
                self._text = []
            else:
                self._spans.append(None)

    def handle_endtag(self, tag: str) -> None:
        if self._id is None:
            return
        if tag == self._tag:
            # An id that stands on a page twice (an embedded paragraph) has the same text twice.
            self.paragraphs.setdefault(self._id, " ".join("".join(self._text).split()))
            self._id = None
        elif tag == "span" and self._spans:
            span = self._spans.pop()
            if isinstance(span, tuple):
                variant_id, before = span
                variant, self._text = "".join(self._text), before
                if self._spans and isinstance(self._spans[-1], list):
                    self._spans[-1].append((variant_id, variant))
            elif span:
                default = [text for variant_id, text in span if variant_id.startswith("default")]
                self._text.append(default[0] if default else span[0][1])

    def handle_data(self, data: str) -> None:
        self._text.append(data)


def paragraphs(html: str) -> dict[str, str]:
    """Return the text of a help page's paragraphs and headings by element id, in the page's order."""
    parser = _Paragraphs()
    parser.feed(html)
    parser.close()
    return parser.paragraphs
