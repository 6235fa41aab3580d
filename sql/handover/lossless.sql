SELECT
    current_setting('arrow_lossless_conversion') AS lossless,
    current_setting('lock_configuration') AS locked
