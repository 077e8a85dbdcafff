"""Record -> routing key: the exact bytes that will be hashed. Pure; for one record and for an Arrow batch.

binary   how the steps look at Arrow arrays of keys
encode   a value -> bytes, by the encodings of the contract
columns  the same for Arrow columns, with malformed values marked instead of raised
window   a time -> the number of its window
places   latitude and longitude -> cell -> routing key, for contracts with lanes by place
read     the fields of a contract's key -> base key and routing key

The base key is the fields alone; hot keys and tables are looked up by it. The routing key adds the window, and
is what is hashed. Without a window they are the same bytes.
"""
