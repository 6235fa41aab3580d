"""Parts of the HTML report: queries on the table, charts, and the page."""
