"""Parts of the HTML report: what is read from the table, how it is drawn, how the page is put together."""
