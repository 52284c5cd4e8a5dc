"""A server for the tools of translators: LibreTranslate's, Apertium's and tmserver's protocols."""
