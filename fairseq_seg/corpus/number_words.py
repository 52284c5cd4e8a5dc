"""Small numbers in words: "the first two" has the numbers 1 and 2, which a translation may write in digits."""

from __future__ import annotations

import re

WORDS = {
    "en": "zero,nought|one,first,once,single|two,second,twice|three,third|four,fourth|five,fifth|six,sixth|"
    "seven,seventh|eight,eighth|nine,ninth|ten,tenth|eleven,eleventh|twelve,twelfth,dozen",
    "fr": "zéro|un,une,premier,première,premiers,premières|deux,deuxième,second,seconde|trois,troisième|"
    "quatre,quatrième|cinq,cinquième|six,sixième|sept,septième|huit,huitième|neuf,neuvième|dix,dixième|onze,onzième|"
    "douze,douzième,douzaine",
    "de": "null|ein,eine,einen,einem,einer,eines,eins,erste,ersten,erster,erstes|zwei,zweite,zweiten,zweiter,zweites|"
    "drei,dritte,dritten,dritter,drittes|vier,vierte,vierten,vierter|fünf,fünfte,fünften,fünfter|sechs,sechste,sechsten|"
    "sieben,siebte,siebten|acht,achte,achten|neun,neunte,neunten|zehn,zehnte,zehnten|elf,elfte,elften|zwölf,zwölfte,zwölften",
    "es": "cero|un,uno,una,primer,primero,primera,primeros,primeras|dos,segundo,segunda|tres,tercer,tercero,tercera|"
    "cuatro,cuarto,cuarta|cinco,quinto,quinta|seis,sexto,sexta|siete,séptimo,séptima|ocho,octavo,octava|"
    "nueve,noveno,novena|diez,décimo,décima|once,undécimo,undécima|doce,duodécimo,duodécima,docena",
    "it": "zero|un,uno,una,primo,prima,primi,prime|due,secondo,seconda|tre,terzo,terza|quattro,quarto,quarta|"
    "cinque,quinto,quinta|sei,sesto,sesta|sette,settimo,settima|otto,ottavo,ottava|nove,nono,nona|dieci,decimo,decima|"
    "undici,undicesimo|dodici,dodicesimo,dozzina",
    "pt": "zero|um,uma,primeiro,primeira,primeiros,primeiras|dois,duas,segundo,segunda|três,terceiro,terceira|"
    "quatro,quarto,quarta|cinco,quinto,quinta|seis,sexto,sexta|sete,sétimo,sétima|oito,oitavo,oitava|nove,nono,nona|"
    "dez,décimo,décima|onze|doze,dúzia",
    "nl": "nul|een,één,eerste|twee,tweede|drie,derde|vier,vierde|vijf,vijfde|zes,zesde|zeven,zevende|acht,achtste|"
    "negen,negende|tien,tiende|elf,elfde|twaalf,twaalfde,dozijn",
}
NUMBERS = {
    lang: {word: number for number, words in enumerate(table.split("|")) for word in words.split(",")}
    for lang, table in WORDS.items()
}
WORD = re.compile(r"[^\W\d_]+")


def numbers_in_words(text: str, lang: str) -> set[int] | None:
    """Return the numbers up to 12 that a text has in words; None for a language whose words are not known."""
    known = NUMBERS.get(re.split("[-_.@]", lang.lower())[0])
    if known is None:
        return None
    return {known[word] for word in WORD.findall(text.lower()) if word in known}
