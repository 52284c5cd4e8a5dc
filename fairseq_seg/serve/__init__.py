"""A server that translates for the tools that translators have: LibreTranslate's, Apertium's and tmserver's protocols."""
