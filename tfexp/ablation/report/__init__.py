"""A study's results as a page, a table on the terminal, files and figures; everything from one `StudyResult`."""
