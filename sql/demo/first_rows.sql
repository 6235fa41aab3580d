FROM census_t LIMIT 3
