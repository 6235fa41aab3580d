SELECT current_setting('force_compression') AS force_compression
