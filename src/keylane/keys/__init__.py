"""Record -> routing key: the exact bytes that will be hashed. Pure; for one record and for an Arrow batch.

    arrow_bytes   Arrow arrays of keys as bytes and as rows of one length
    encode        a value -> bytes, by the encodings of the contract
    columns       the same for Arrow columns, with malformed values marked instead of raised
    csv_line      the cells of a line of CSV with quotes in odd places
    json_columns  fields of JSON texts as Arrow columns
    cells         latitude and longitude -> home cell -> routing key, for contracts with a `geo` section
    json_object   which texts are JSON objects, and their fields
    times         what a column of times holds, as microseconds
    read          the fields of a contract's key, and its time window -> base key and routing key

The base key is the fields alone; hot keys and tables are looked up by it. The routing key adds the window, and
is what is hashed. Without a window they are the same bytes.
"""
