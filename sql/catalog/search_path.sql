SELECT current_setting('search_path') AS search_path
