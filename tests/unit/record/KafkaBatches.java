// Prints the lines of kafka_batches.txt: batches built, filtered and marked by Apache Kafka's own classes.
//   java -cp 'KAFKA_JARS/*' KafkaBatches.java > kafka_batches.txt      (Kafka 4.3.1, Java 17 or later)

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.stream.LongStream;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

public class KafkaBatches {
    static final Header[] NONE = {};
    static final Header[] SOME = {
        new RecordHeader("h", bytes("v")), new RecordHeader("", null), new RecordHeader("ключ", new byte[0])};

    public static void main(String[] args) {
        System.out.println("# Written by KafkaBatches.java with Apache Kafka 4.3.1: name, bytes in hex.");
        String[] codecs = {"none", "gzip", "snappy", "lz4", "zstd"};
        for (int codec = 0; codec < 5; codec++) {
            MemoryRecords plain = five(codec, TimestampType.CREATE_TIME, -1);
            print("v2-" + codecs[codec], plain);
            print("v2-" + codecs[codec] + "-kept-1-3", filtered(plain, false, 0, 43, 45));
        }
        MemoryRecords plain = five(0, TimestampType.CREATE_TIME, -1);
        print("v2-horizon", five(0, TimestampType.CREATE_TIME, 7_777));
        print("v2-append-time", five(0, TimestampType.LOG_APPEND_TIME, -1));
        print("v2-append-time-kept-1-3", filtered(five(0, TimestampType.LOG_APPEND_TIME, -1), false, 0, 43, 45));
        print("v2-kept-tombstone", filtered(plain, false, 9_999, 44, 45));
        print("v2-horizon-kept-1-3", filtered(five(0, TimestampType.CREATE_TIME, 7_777), false, 9_999, 43, 45));
        print("v2-emptied", filtered(plain, true, 9_999));
        print("v2-horizon-emptied", filtered(five(4, TimestampType.CREATE_TIME, 7_777), true, 9_999));
        for (ControlRecordType type : new ControlRecordType[] {ControlRecordType.ABORT, ControlRecordType.COMMIT}) {
            MemoryRecords marker = MemoryRecords.withEndTransactionMarker(
                12L, 5_000L, 3, 77L, (short) 2, new EndTransactionMarker(type, 11));
            print(type.name().toLowerCase(), marker);
            print(type.name().toLowerCase() + "-horizon", filtered(marker, false, 9_999, 12));
        }
        for (int magic = 0; magic < 2; magic++)
            for (int codec = 0; codec < 3 + magic; codec++) {
                print("v" + magic + "-" + codecs[codec], old(magic, codec, TimestampType.CREATE_TIME));
                if (magic == 1)
                    print("v1-" + codecs[codec] + "-append-time", old(magic, codec, TimestampType.LOG_APPEND_TIME));
            }
    }

    /** Offsets 42 to 46; 44 is a tombstone; timestamps are not in order. */
    static MemoryRecords five(int codec, TimestampType type, long horizonMs) {
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(new ByteBufferOutputStream(1024), (byte) 2,
            Compression.of(CompressionType.forId(codec)).build(), type, 42L, 6_000L, 77L, (short) 2,
            Integer.MAX_VALUE - 2, true, false, 3, 1024, horizonMs);
        builder.appendWithOffset(42, 1_000, bytes("a"), bytes("first"), NONE);
        builder.appendWithOffset(43, 3_000, null, bytes(""), SOME);
        builder.appendWithOffset(44, 500, bytes("c"), null, NONE);
        builder.appendWithOffset(45, 2_000, bytes(""), bytes("x".repeat(200)), SOME);
        builder.appendWithOffset(46, 4_000, bytes("a"), bytes("last"), NONE);
        return builder.build();
    }

    static MemoryRecords old(int magic, int codec, TimestampType type) {
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(ByteBuffer.allocate(1024), (byte) magic,
            Compression.of(CompressionType.forId(codec)).build(), magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE : type,
            42L, 6_000L, -1L, (short) -1, -1, false, false, -1, 1024);
        builder.appendWithOffset(42, magic == 0 ? -1 : 1_000, bytes("a"), bytes("first"));
        builder.appendWithOffset(43, magic == 0 ? -1 : 3_000, null, bytes(""));
        builder.appendWithOffset(46, magic == 0 ? -1 : 2_000, bytes("c"), (byte[]) null);
        return builder.build();
    }

    static MemoryRecords filtered(MemoryRecords records, boolean retainEmpty, long horizonMs, long... offsets) {
        ByteBuffer out = ByteBuffer.allocate(4096);
        records.filterTo(new MemoryRecords.RecordFilter(horizonMs, 0) {
            protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
                return new BatchRetentionResult(
                    retainEmpty ? BatchRetention.RETAIN_EMPTY : BatchRetention.DELETE_EMPTY, batch.isControlBatch());
            }

            protected boolean shouldRetainRecord(RecordBatch batch, Record record) {
                return LongStream.of(offsets).anyMatch(offset -> offset == record.offset());
            }
        }, out, BufferSupplier.NO_CACHING);
        out.flip();
        return MemoryRecords.readableRecords(out);
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static void print(String name, MemoryRecords records) {
        ByteBuffer buffer = records.buffer();
        byte[] all = new byte[buffer.remaining()];
        buffer.get(all);
        System.out.println(name + " " + HexFormat.of().formatHex(all));
    }
}
