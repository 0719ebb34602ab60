"""report.html: one page that shows a dataset, or a source before it is packed."""
