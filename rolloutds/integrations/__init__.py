"""The data sources as classes of other frameworks; nothing else in the package imports these."""
