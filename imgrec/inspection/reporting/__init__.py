"""One page that shows a dataset: `report.html`."""
