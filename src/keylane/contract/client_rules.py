"""Rules that clients place by, each read in the client's own source: data only, no code of a placement is here.

A named partitioner promises a placement; these promise nothing. They say who else is known to place by a rule, so that
a stream whose rule no name covers is called by its parts, its likely clients, and the setting that makes each agree
with others. A rule that does have a name has `named`. The names themselves are `partitioners`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

#: (a family of named partitioners, the setting that makes this client place so).
Agreement: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ClientRule:
    """One setting of one client, by its parts: the hash and its seed, and the fold of `placement.fold`.

    A `seed` of None is the hash's usual one. A hash of more than 32 bits is folded whole: `positive` reads its sign
    from its own highest bit. `source` names the repository or package, its version, and the file that was read.
    """

    client: str
    setting: str
    hash: str
    seed: int | None
    fold: str
    source: str
    agrees: tuple[Agreement, ...]
    on_null: str = ""
    named: str = ""

    @property
    def family(self) -> str:
        """Hash and fold, as a partitioner's family; `rules_of` goes by the seed, too."""
        return f"{self.hash}/{self.fold}"


#: Hashes of clients here that no contract names; those that keylane computes: `measure.rules.UNNAMED`.
UNNAMED_HASHES: Final[dict[str, str]] = {
    "fnv1": "FNV-1, 32 bits: for each byte, multiply by the prime, then xor it in",
    "java-bytes": "Arrays.hashCode(byte[]): from 1, h = 31 * h + the signed byte",
    "xxhash32": "XXH32 as published, seed 0",
    "erlang-phash2": "erlang:phash2/1 of a binary: Jenkins' hash of 1996 from 0x08d12e65, its low 27 bits",
    "md5-byte-sum": "the sum of the 16 bytes of the key's MD5, so 0 to 4080",
    "sha1": "SHA-1 as a big-endian number of 160 bits",
    "sha256": "SHA-256 as a big-endian number of 256 bits",
    "lookup3-int16": "Jenkins' lookup3, hashlittle2 with seeds 0: c xor b, its low 16 bits, signed, widened to 32 bits",
    "siphash24": "SipHash-2-4, 64 bits; the seed is its key of 16 bytes, read little-endian, and usually 0",
    "siphash24-prefixed": "siphash24 of the key's length in 8 little-endian bytes and the key, as Rust hashes a slice",
    "siphash24-low-32": "the low 32 bits of siphash24",
    "murmur3-x64-128-utf16": "murmur3 x64 of the key in UTF-16 behind a byte order mark, 128 bits, read little-endian",
}

#: The seed a hash has where none is named; a rule with this number is the rule with None.
_USUAL_SEEDS: Final[dict[str, int]] = {"murmur2": 0x9747B28C, "murmur2-big-endian": 0x9747B28C}
_ROCKETMQ_KEY: Final = int.from_bytes(bytes(range(16)), "little")

_SARAMA: Final[tuple[Agreement, ...]] = (
    ("murmur2/masked", "Producer.Partitioner = sarama.NewMurmur2Partitioner"),
    ("crc32/unsigned", "Producer.Partitioner = sarama.NewConsistentCRCHashPartitioner"),
    ("fnv1a/absolute", "Producer.Partitioner = sarama.NewHashPartitioner"),
    ("fnv1a/masked", "Producer.Partitioner = sarama.NewReferenceHashPartitioner"),
)
_FRANZ: Final[tuple[Agreement, ...]] = (
    ("murmur2/masked", "kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil))"),
    ("crc32/unsigned", "kgo.RecordPartitioner(kgo.StickyKeyPartitioner(kgo.SaramaHasher(crc32.ChecksumIEEE)))"),
    ("fnv1a/absolute", "kgo.RecordPartitioner(kgo.StickyKeyPartitioner(kgo.SaramaCompatHasher(fnv32a)))"),
    ("fnv1a/masked", "kgo.RecordPartitioner(kgo.StickyKeyPartitioner(kgo.KafkaHasher(fnv32a)))"),
)

# fmt: off
# A client a paragraph: whose it is and its rule; where that was read; what makes it agree.
CLIENT_RULES: Final[tuple[ClientRule, ...]] = (
    ClientRule("@platformatic/kafka", "the default", "murmur2", None, "unsigned",
        "npm @platformatic/kafka 1.35.0, 2.12.1, partitioners.js: murmur2(key) >>> 0; producer.js: %= partitionsCount",
        (("murmur2/masked", "partitioner: compatibilityPartitioner"),), on_null="round robin"),
    ClientRule("Dekaf before 1.0", "the default", "murmur2", None, "unsigned",
        "thomhurst/Dekaf before 6ab737ac, src/Dekaf/Producer/Partitioner.cs: Murmur2.Hash(key) % partitionCount",
        (("murmur2/masked", "Dekaf 1.0 or later"),), on_null="round robin, empty keys too"),
    ClientRule("kafka_ex 0.10", "the default", "murmur2", None, "unsigned",
        "kafkaex/kafka_ex 0.10.0, lib/kafka_ex/utils/murmur.ex: band(0xFFFFFFFF)",
        (("murmur2/masked", "kafka_ex 0.11 or later"),), on_null="random"),
    ClientRule("kafka_ex",
        "partitioner: KafkaEx.LegacyPartitioner, from 1.0 KafkaEx.Producer.Partitioner.Legacy",
        "murmur2", None, "unsigned",
        "kafkaex/kafka_ex v1.0.0, lib/kafka_ex/producer/legacy.ex: rem(umurmur2_legacy(key), partition_count)",
        (("murmur2/masked", "the default partitioner of kafka_ex 0.11 or later"),), on_null="random"),
    ClientRule("@platformatic/kafka", "partitioner: compatibilityPartitioner", "murmur2", None, "masked",
        "npm @platformatic/kafka 1.35.0, 2.12.1, partitioners.js: murmur2(key) & 0x7fffffff",
        (), on_null="lane 0", named="kafka-java"),
    ClientRule("Dekaf", "the default", "murmur2", None, "masked",
        "thomhurst/Dekaf v1.0.2498, src/Dekaf/Producer/Partitioner.cs: (Hash(key) & 0x7fffffff) % partitionCount",
        (("crc32/unsigned", "PartitionerType.ConsistentRandom"), ("fnv1a/absolute", "PartitionerType.Fnv1ARandom")),
        on_null="round robin or sticky, empty keys too", named="kafka-java"),
    ClientRule("kafka_ex", "the default of 0.11 and later", "murmur2", None, "masked",
        "kafkaex/kafka_ex v1.1.0, lib/kafka_ex/support/murmur.ex: band(0x7FFFFFFF)",
        (), on_null="random", named="kafka-go-murmur2"),
    ClientRule("no-kafka", "the default", "murmur2", None, "masked",
        "npm no-kafka 3.4.4, lib/assignment/partitioners/default.js: toPositive(murmur2(key)) % partitions.length",
        (), on_null="round robin", named="kafkajs-2"),
    ClientRule("@confluentinc/kafka-javascript, its KafkaJS API", "the default", "murmur2", None, "masked",
        "npm @confluentinc/kafka-javascript 1.10.1, lib/kafkajs/_producer.js: partitioner = murmur2_random",
        (), on_null="sticky", named="librdkafka-murmur2-random"),
    ClientRule("afkak", "partitioner_class=HashedPartitioner", "murmur2", None, "masked",
        "PyPI afkak 21.5.0.post0, afkak/partitioner.py: (hash & 0x7FFFFFFF) % len(partitions)",
        (), named="kafka-java"),
    ClientRule("ruby-kafka", "Kafka::Partitioner.new(hash_function: :murmur2)", "murmur2", None, "masked",
        "zendesk/ruby-kafka v1.5.1, lib/kafka/murmur2_hash.rb: rawdigest(value, SEED) & 0x7fffffff",
        (), on_null="random", named="kafka-go-murmur2"),
    ClientRule("fluent-plugin-kafka", "partitioner_hash_function murmur2", "murmur2", None, "masked",
        "fluent/fluent-plugin-kafka v0.19.7, lib/fluent/plugin/out_kafka2.rb",
        (), on_null="random", named="kafka-go-murmur2"),
    ClientRule("OpenTelemetry Collector kafkaexporter",
        "record_partitioner: sticky_key: hasher: murmur2", "murmur2", None, "masked",
        "opentelemetry-collector-contrib exporter/kafkaexporter v0.155.0, config.go, README.md",
        (), on_null="sticky", named="kafka-java"),
    ClientRule("Redpanda Connect output kafka", "partitioner: murmur2_hash", "murmur2", None, "masked",
        "redpanda-data/connect 06db230c, internal/impl/kafka/output_sarama_kafka.go: WithAbsFirst",
        (), named="kafka-go-murmur2"),
    ClientRule("Apache Pinot", "functionName: Murmur", "murmur2", None, "masked",
        "apache/pinot 13cad437, MurmurPartitionFunction.java: (murmur2(bytes) & 0x7fffffff) % n",
        (), named="kafka-java"),
    ClientRule("node-sinek", 'murmurHashVersion: "2"', "murmur2", None, "masked",
        "nodefluent/node-sinek v9.1.0, lib/librdkafka/NProducer.js; npm murmur2-partitioner 1.0.0",
        (), named="kafka-java"),
    ClientRule("node-sinek",
        'the default: murmurHashVersion: "3"; before 10.0 on ASCII keys', "murmur3-32", None, "unsigned",
        "nodefluent/node-sinek v9.1.0, lib/librdkafka/NProducer.js: murmur.v3(key) % partitionCount",
        (("murmur2/masked", 'murmurHashVersion: "2"'),)),
    ClientRule("DotPulsar", "the default", "murmur3-32", None, "unsigned",
        "apache/pulsar-dotpulsar 5.3.0, RoundRobinPartitionRouter.cs: Hash32(keyBytes, 0) % numberOfPartitions",
        (), on_null="round robin, empty keys too"),
    ClientRule("node-sinek 6.12", 'murmurHashVersion: "2", on ASCII keys', "murmur2", 0, "unsigned",
        "nodefluent/node-sinek 452b16b6, lib/librdkafka/NProducer.js: murmur.v2(key) % partitionCount, without a seed",
        (("murmur2/masked", 'murmurHashVersion: "2" of a later version'),)),
    ClientRule("RabbitMQ Stream Java client", "routing by hash of the routing key", "murmur3-32", 104729, "unsigned",
        "rabbitmq/rabbitmq-stream-java-client v1.11.0, HashRoutingStrategy.java: Integer.remainderUnsigned(hash, n)",
        ()),
    ClientRule("RabbitMQ Stream Go client", "routing by hash of the routing key", "murmur3-32", 104729, "unsigned",
        "rabbitmq/rabbitmq-stream-go-client v1.8.3, super_stream_producer.go: Sum32() % uint32(n)",
        ()),
    ClientRule("RabbitMQ Stream .NET client", "routing by hash of the routing key", "murmur3-32", 104729, "unsigned",
        "rabbitmq/rabbitmq-stream-dotnet-client v1.11.2, RawSuperStreamProducer.cs: ToUInt32(hash) % (uint)n",
        ()),
    ClientRule("rstream", "routing by hash of the routing key", "murmur3-x64-128-utf16", 104729, "unsigned",
        'PyPI rstream 1.1.1, superstream.py: mmh3.hash_bytes(bytes(key, "UTF-16"), 104729) % partitions',
        ()),
    ClientRule("Maxwell",
        "kafka_partition_hash=murmur3, of the text that producer_partition_by gives", "murmur3-32", 25342, "absolute",
        "zendesk/maxwell v1.45.0, MaxwellKafkaPartitioner.java: Math.abs(hashCode % numPartitions)",
        ()),
    ClientRule("Apache Pinot", "functionName: Murmur3", "murmur3-32", None, "masked",
        "apache/pinot 04e1ae5a, Murmur3PartitionFunction.java: (hash & Integer.MAX_VALUE) % n; a seed can be set",
        (), named="pulsar-murmur3"),
    ClientRule("Pulsar Go client", "HashingScheme: pulsar.Murmur3_32Hash", "murmur3-32", None, "masked",
        "apache/pulsar-client-go v0.19.0, pulsar/internal/hash.go: Sum32() & 0x7fffffff",
        (), on_null="round robin, empty keys too", named="pulsar-murmur3"),
    ClientRule("Pulsar C++ client", "HashingScheme Murmur3_32Hash", "murmur3-32", None, "masked",
        "apache/pulsar-client-cpp v4.2.0, lib/Murmur3_32Hash.cc",
        (), named="pulsar-murmur3"),
    ClientRule("sarama", "NewCustomPartitioner(WithHashUnsigned())", "fnv1a", None, "unsigned",
        "IBM/sarama v1.61.1, partitioner.go: Sum32() % uint32(numPartitions)",
        _SARAMA, on_null="random"),
    ClientRule("franz-go", "StickyKeyPartitioner(SaramaHasher(fnv32a)), on 64 bits", "fnv1a", None, "unsigned",
        "twmb/franz-go v1.22.2, pkg/kgo/partitioner.go: int(hashFn(key)) % n",
        _FRANZ, on_null="sticky"),
    ClientRule("NATS subject mapping",
        "partition(n, tokens): the key is the tokens, joined without a dot", "fnv1a", None, "unsigned",
        "nats-io/nats-server v2.15.2, server/subject_transform.go: h.Sum32() % uint32(numBuckets)",
        ()),
    ClientRule("RocketMQ Go client 2.x", "producer.NewHashQueueSelector(), on 64 bits", "fnv1a", None, "unsigned",
        "apache/rocketmq-client-go v2.1.2, producer/selector.go: int(hasher.Sum32()) % len(queues)",
        (), on_null="random, empty keys too"),
    ClientRule("franz-go", "StickyKeyPartitioner(SaramaCompatHasher(fnv32a))", "fnv1a", None, "absolute",
        "twmb/franz-go v1.22.2, pkg/kgo/partitioner.go: int32(hashFn(key)) % int32(n)",
        _FRANZ, on_null="sticky", named="librdkafka-fnv1a-random"),
    ClientRule("OpenTelemetry Collector kafkaexporter", "the default", "fnv1a", None, "absolute",
        "opentelemetry-collector-contrib exporter/kafkaexporter v0.155.0, factory.go: HasherSaramaCompat",
        (("murmur2/masked", "record_partitioner: sticky_key: hasher: murmur2"),),
        on_null="sticky", named="librdkafka-fnv1a-random"),
    ClientRule("Redpanda Connect output kafka", "the default", "fnv1a", None, "absolute",
        "redpanda-data/connect 06db230c, internal/impl/kafka/output_sarama_kafka.go: NewHashPartitioner",
        (("murmur2/masked", "partitioner: murmur2_hash"),), named="sarama-hash"),
    ClientRule("franz-go", "StickyKeyPartitioner(KafkaHasher(fnv32a))", "fnv1a", None, "masked",
        "twmb/franz-go v1.22.2, pkg/kgo/partitioner.go: int(hashFn(key) & 0x7fffffff) % n",
        _FRANZ, on_null="sticky", named="sarama-reference"),
    ClientRule("Elastic Beats output kafka", "the default: partition.hash", "fnv1a", None, "masked",
        "elastic/beats 05989d10, libbeat/outputs/kafka/partition.go: int32(hash) & 0x7FFFFFFF % numPartitions",
        (), on_null="random", named="sarama-reference"),
    ClientRule("sarama", "NewCustomHashPartitioner(fnv.New32)", "fnv1", None, "absolute",
        "IBM/sarama v1.61.1, partitioner.go: int32(Sum32()) % numPartitions, negated if negative",
        _SARAMA, on_null="random"),
    ClientRule("sarama", "NewCustomHashPartitioner(crc32.NewIEEE)", "crc32", None, "absolute",
        "IBM/sarama v1.61.1, partitioner.go: int32(Sum32()) % numPartitions, negated if negative",
        _SARAMA, on_null="random"),
    ClientRule("franz-go", "StickyKeyPartitioner(SaramaCompatHasher(crc32.ChecksumIEEE))", "crc32", None, "absolute",
        "twmb/franz-go v1.22.2, pkg/kgo/partitioner.go: int32(hashFn(key)) % int32(n)",
        _FRANZ, on_null="sticky"),
    ClientRule("no-kafka", "HashCRC32Partitioner, on ASCII keys", "crc32", None, "absolute",
        "npm no-kafka 3.4.4, lib/protocol/misc/crc32.js: Math.abs(crc ^ -1)",
        (("murmur2/masked", "DefaultPartitioner"),), on_null="lane 0"),
    ClientRule("sarama",
        "NewCustomPartitioner(WithAbsFirst(), WithCustomHashFunction(crc32.NewIEEE))", "crc32", None, "masked",
        "IBM/sarama v1.61.1, partitioner.go: (int32(Sum32()) & 0x7fffffff) % numPartitions",
        _SARAMA, on_null="random"),
    ClientRule("franz-go", "StickyKeyPartitioner(KafkaHasher(crc32.ChecksumIEEE))", "crc32", None, "masked",
        "twmb/franz-go v1.22.2, pkg/kgo/partitioner.go: int(hashFn(key) & 0x7fffffff) % n",
        _FRANZ, on_null="sticky"),
    ClientRule("franz-go",
        "StickyKeyPartitioner(SaramaHasher(crc32.ChecksumIEEE)), on 64 bits", "crc32", None, "unsigned",
        "twmb/franz-go v1.22.2, pkg/kgo/partitioner.go: int(hashFn(key)) % n",
        _FRANZ, on_null="sticky", named="sarama-crc"),
    ClientRule("ruby-kafka", "the default", "crc32", None, "unsigned",
        "zendesk/ruby-kafka v1.5.1, lib/kafka/partitioner.rb: Zlib.crc32(key) % partition_count",
        (("murmur2/masked", "Kafka::Partitioner.new(hash_function: :murmur2)"),), on_null="random", named="sarama-crc"),
    ClientRule("fluent-plugin-kafka", "the default", "crc32", None, "unsigned",
        "fluent/fluent-plugin-kafka v0.19.7, lib/fluent/plugin/out_kafka2.rb: partitioner_hash_function",
        (("murmur2/masked", "partitioner_hash_function murmur2"),), on_null="random", named="sarama-crc"),
    ClientRule("poseidon", "the default", "crc32", None, "unsigned",
        "bpot/poseidon bfbf084e, lib/poseidon/message_conductor.rb: Zlib::crc32(key) % partition_count",
        (), on_null="round robin", named="sarama-crc"),
    ClientRule("longlang/phpkafka", "the default", "crc32", None, "unsigned",
        "longyan/phpkafka v1.1.4, src/Producer/Partitioner/DefaultPartitioner.php: crc32($key) % $partitionCount",
        (), on_null="round robin", named="sarama-crc"),
    ClientRule("kafka-net", "the default", "crc32", None, "unsigned",
        "Jroland/kafka-net c9bbbe61, DefaultPartitionSelector.cs: Crc32Provider.Compute(key) % Count",
        (), on_null="round robin", named="sarama-crc"),
    ClientRule("lua-resty-kafka", "the default", "crc32", None, "unsigned",
        "doujiang24/lua-resty-kafka v0.23, lib/resty/kafka/producer.lua: ngx.crc32_short(key) % num",
        (), on_null="round robin", named="sarama-crc"),
    ClientRule("Liftbridge Go client", "PartitionByKey()", "crc32", None, "unsigned",
        "liftbridge-io/go-liftbridge v2.3.0, v2/message.go: crc32.ChecksumIEEE(key) % uint32(partitions)",
        (), on_null="hashed as empty", named="librdkafka-consistent"),
    ClientRule("Kafka 0.8.2 Scala producer", "the default, with String keys", "java-string", None, "absolute",
        "Maven kafka_2.10 0.8.2.2, DefaultPartitioner: Utils.abs(key.hashCode) % n, and MIN_VALUE is 0",
        ()),
    ClientRule("Spring Cloud Stream",
        "the default partition selector, with String keys", "java-string", None, "absolute",
        "spring-cloud/spring-cloud-stream v5.0.3, PartitionHandler.java: Math.abs(key.hashCode()), MIN_VALUE as 0",
        (), on_null="refused"),
    ClientRule("Maxwell", "the default, of the text that producer_partition_by gives", "java-string", None, "absolute",
        "zendesk/maxwell v1.45.0, MaxwellKafkaPartitioner.java: Math.abs(s.hashCode() % numPartitions)",
        ()),
    ClientRule("Apache Samza", "a String partition key in the OutgoingMessageEnvelope", "java-string", None, "absolute",
        "apache/samza release-1.8.0-rc0, KafkaUtil.java: abs(getPartitionKey().hashCode()) % numPartitions",
        (), on_null="the Java producer's own"),
    ClientRule("RocketMQ Java client 4.x",
        "SelectMessageQueueByHash, with a String argument", "java-string", None, "absolute",
        "apache/rocketmq 0dd9326a, SelectMessageQueueByHash.java: Math.abs(arg.hashCode() % mqs.size())",
        ()),
    ClientRule("Pekko Persistence", "slices: always on 1024 lanes", "java-string", None, "absolute",
        "Maven pekko-persistence_2.13 1.1.3, Persistence.sliceForPersistenceId: math.abs(hashCode % 1024)",
        ()),
    ClientRule("Pekko Cluster Sharding", "HashCodeMessageExtractor", "java-string", None, "absolute",
        "Maven pekko-cluster-sharding_2.13 1.1.3, ShardRegion.HashCodeMessageExtractor: math.abs(id.hashCode) % n",
        ()),
    ClientRule("Apache Pinot", "functionName: HashCode", "java-string", None, "absolute",
        "apache/pinot 0879e084, HashCodePartitionFunction.java: abs(value.hashCode()) % n, MIN_VALUE as 0",
        ()),
    ClientRule("Kafka 0.8.0 and 0.8.1 Scala producer", "the default, with String keys", "java-string", None, "masked",
        "Maven kafka_2.10 0.8.0 and 0.8.1.1, kafka.producer.DefaultPartitioner: (key.hashCode & 0x7fffffff) % n",
        (), named="pulsar-java-string"),
    ClientRule("Pulsar C++ client", "HashingScheme JavaStringHash, on ASCII keys", "java-string", None, "masked",
        "apache/pulsar-client-cpp v4.2.0, lib/JavaStringHash.cc: over signed bytes",
        (("murmur3-32/masked", "HashingScheme Murmur3_32Hash"),), named="pulsar-java-string"),
    ClientRule("kafka-node", "partitionerType: 3 (KeyedPartitioner)", "java-string", None, "masked",
        "npm kafka-node 5.0.0, lib/partitioner.js: (hash * 31 + charCodeAt(i)) & 0x7fffffff, and 1 for a hash of 0",
        (), on_null="lane 1", named="pulsar-java-string"),
    ClientRule("Debezium PartitionRouting",
        "partition.payload.fields with one field of text", "java-string", None, "masked",
        "debezium/debezium 058d2504, PartitionRouting.java: (sum of hashCode & Integer.MAX_VALUE) % n",
        (), named="pulsar-java-string"),
    ClientRule("Pulsar Go client", "the default, on ASCII keys", "java-string", None, "unsigned",
        "apache/pulsar-client-go v0.19.0, internal/hash.go: uint32 over bytes; default_router.go: % numPartitions",
        (("murmur3-32/masked", "HashingScheme: pulsar.Murmur3_32Hash"),), on_null="round robin, empty keys too"),
    ClientRule("Debezium PartitionRouting",
        "partition.payload.fields with one field of int64", "java-long", None, "masked",
        "debezium/debezium 058d2504, PartitionRouting.java: (sum of hashCode & Integer.MAX_VALUE) % n",
        ()),
    ClientRule("Kafka 0.8.2 Scala producer",
        "partitioner.class=kafka.producer.ByteArrayPartitioner", "java-bytes", None, "absolute",
        "Maven kafka_2.10 0.8.2.2, kafka.producer.ByteArrayPartitioner: Utils.abs(Arrays.hashCode(key)) % n",
        ()),
    ClientRule("Apache Pinot", "functionName: ByteArray", "java-bytes", None, "absolute",
        "apache/pinot 21632dad, ByteArrayPartitionFunction.java: abs(Arrays.hashCode(bytes)) % n, MIN_VALUE as 0",
        ()),
    ClientRule("Kafka 0.8.0 and 0.8.1 Scala producer",
        "partitioner.class=kafka.producer.ByteArrayPartitioner", "java-bytes", None, "masked",
        "Maven kafka_2.10 0.8.0, 0.8.1.1, ByteArrayPartitioner: (Arrays.hashCode(key) & 0x7fffffff) % n",
        ()),
    ClientRule("kafka-rust", "the default of 0.6 and later", "xxhash32", None, "unsigned",
        "kafka-rust/kafka-rust v0.9.0, src/producer.rs: XxHash32::default(), hash % num_partitions",
        (), on_null="round robin"),
    ClientRule("Apache Iggy", "Partitioning by messages key", "xxhash32", None, "unsigned",
        "apache/iggy cc269ef7, core/common/src/utils/hash.rs: XxHash32::oneshot(0, key); Go, Java, C# alike",
        ()),
    ClientRule("kafka-rust before 0.6", "the default", "siphash24-low-32", None, "unsigned",
        "kafka-rust/kafka-rust v0.5.0, src/producer.rs: SipHasher, h.finish() as u32 % num_partitions",
        (), on_null="round robin"),
    ClientRule("Sixt ja-micro", "SixtPartitioner, the default", "xxhash32", 2538058380, "masked",
        "Sixt/ja-micro 3.3.2, SixtPartitioner.java: Utils.toPositive(xxHasher.hash(keyBytes, SEED)) % n",
        (), on_null="round robin"),
    ClientRule("brod", "partitioner: hash", "erlang-phash2", None, "unsigned",
        "kafka4beam/brod 4.6.2, src/brod_utils.erl: erlang:phash2(Key) rem PartitionCount",
        ()),
    ClientRule("wolff", "partitioner: first_key_dispatch", "erlang-phash2", None, "unsigned",
        "kafka4beam/wolff 4.2.1, src/wolff_producers.erl: erlang:phash2(Key) rem Count, of a batch's first key",
        ()),
    ClientRule("Kaffe", "the default: partition_strategy: :md5", "md5-byte-sum", None, "unsigned",
        "spreedly/kaffe 2.2.0, lib/kaffe/partition_selector.ex: the sum of the digest's bytes, rem(total)",
        ()),
    ClientRule("pykafka", "partitioner=HashingPartitioner()", "sha1", None, "unsigned",
        "PyPI pykafka 2.8.0, pykafka/partitioners.py: int(sha1(key).hexdigest(), 16) % len(partitions)",
        (), on_null="refused"),
    ClientRule("Pub/Sub Lite Python client", "the default", "sha256", None, "unsigned",
        "PyPI google-cloud-pubsublite 1.13.0, default_routing_policy.py: big-endian digest % num_partitions",
        (), on_null="round robin, empty keys too"),
    ClientRule("Azure Event Hubs JavaScript and Java buffered producers",
        "a partition key, of ASCII", "lookup3-int16", None, "absolute",
        "npm @azure/event-hubs 6.0.4, partitionKeyToIdMapper.js; azure-sdk-for-java 000124de, PartitionResolver.java",
        (), on_null="round robin"),
    ClientRule("Azure Event Hubs Python buffered producer",
        "a partition key, of ASCII", "lookup3-int16", None, "positive",
        "PyPI azure-eventhub 5.15.1, _partition_resolver.py: abs(hash % n), where Python's % is never negative",
        (), on_null="round robin"),
    ClientRule("RocketMQ 5 Java and Go clients", "a message group", "siphash24", _ROCKETMQ_KEY, "positive",
        "apache/rocketmq-clients cfb9daa7, PublishingLoadBalancer.java: LongMath.mod; golang/loadBalancer.go: Mod64",
        (), on_null="round robin"),
    ClientRule("RocketMQ 5 Rust client", "a message group", "siphash24", None, "unsigned",
        "apache/rocketmq-clients da8271b5, rust/src/util.rs: SipHasher24::default().finish() % n",
        (), on_null="round robin"),
    ClientRule("Fluvio", "the default", "siphash24-prefixed", None, "unsigned",
        "infinyon/fluvio v0.18.1, crates/fluvio/src/producer/partitioning.rs: key.hash(SipHasher::new())",
        (), on_null="round robin"),
)
# fmt: on


def rules_of(hash_: str, seed: int | None, fold: str) -> tuple[ClientRule, ...]:
    """The clients known to place by a rule, those whose default it is first; none where nobody is known to.

    >>> [one.client for one in rules_of("murmur2", None, "unsigned")][:2]
    ['@platformatic/kafka', 'Dekaf before 1.0']
    """
    wanted = (hash_, _unusual(hash_, seed), fold)
    found = [one for one in CLIENT_RULES if (one.hash, one.seed, one.fold) == wanted]
    return tuple(sorted(found, key=lambda one: "the default" not in one.setting))


def _unusual(hash_: str, seed: int | None) -> int | None:
    return None if seed == _USUAL_SEEDS.get(hash_, 0) else seed
