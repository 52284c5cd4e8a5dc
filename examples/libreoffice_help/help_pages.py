"""LibreOffice's help as Debian packages it: fetch the packages, read their pages, give the paragraphs by their ids."""

import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import lxml.html

WAYS_OUT = (
    "give the two packages with --deb EN.deb TARGET.deb, or your own text, one sentence per line, with --corpus PREFIX"
)

PARAGRAPHS = "//*[starts-with(@id, 'par_') or starts-with(@id, 'hd_')]"
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


def paragraphs(html: str) -> dict[str, str]:
    """Return the text of a help page's paragraphs and headings by element id, in the page's order.

    Where the help has variants of a phrase (for macOS, for Calc, ...: hidden spans inside a `switchinline`), a reader
    sees one of them: here the default one, or the first if there is no default.
    """
    if not html.strip():
        return {}
    page = lxml.html.document_fromstring(html.encode(), parser=lxml.html.HTMLParser(encoding="utf-8"))
    for line_break in page.iter("br"):
        line_break.tail = f" {line_break.tail or ''}"
    for switch in page.xpath("//span[@class='switchinline']"):
        variants = switch.xpath("span[@hidden]")
        for variant in variants:  # a blank between them belongs before the phrase
            switch.text, variant.tail = f"{switch.text or ''}{variant.tail or ''}", None
        for shown in [*(v for v in variants if v.get("id", "").startswith("default")), *variants][:1]:
            del shown.attrib["hidden"]
    for hidden in page.xpath(f"{PARAGRAPHS}//span[@hidden]"):
        hidden.drop_tree()
    found: dict[str, str] = {}
    for element in page.xpath(PARAGRAPHS):
        if element.get("class") not in CODE_CLASSES:
            # An id that stands on a page twice (an embedded paragraph) has the same text twice.
            found.setdefault(element.get("id"), " ".join(element.text_content().split()))
    return found
