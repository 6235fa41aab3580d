FROM census_t LIMIT 5
