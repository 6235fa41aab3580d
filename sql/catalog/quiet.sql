SET enable_progress_bar = false
