"""What data says. Pure functions over Arrow batches; who reads the files is `systems`.

candidates   every (partitioner, encoding) that could have written a key column
mixture      shares of several writers, from how often each could have written a record
tally        one pass over keys and lanes: the lane count, the rules believed, what each row fits first
identify     which client's partitioner wrote this data, and is there a second one that disagrees?
golden       a contract's golden examples and chosen keys, without data
alarm        is the fullest lane fuller than chance makes it? with a stated rate of false alarms
hot          why is a lane hot: one key, few keys, an unlucky hash, a mixed writer (heat: the words of it)
balance      how evenly lanes are filled, and how evenly they could be
keep         does this data keep its contract: lanes, expectations
profile      every key of a stream with its records by window, as values; windows: where those lie
counted      rows of counts -> a profile, its order and its fingerprint; sketched: the same out of sketches
lookalikes   keys that look the same and are not
overview     a profile as a document, its keys masked (masking), its figures explained (sentences)
together     are these contracts, or these data sets, co-partitioned?
"""
