FROM source
