package keylane.blocks;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * The files of a checkpoint as Spark writes them, but for one thing: on a local disk Hadoop starts the program `chmod` for
 * each file that it makes, and once more for its checksum. Dozens of processes a batch cost more than the batch. Here
 * permissions are set by a call. On any other file system this is Spark's own class.
 */
public final class CheckpointFiles extends FileSystemBasedCheckpointFileManager {
    public CheckpointFiles(Path path, Configuration given) {
        super(path, withLocal(given));
    }

    private static Configuration withLocal(Configuration given) {
        Configuration own = new Configuration(given);
        own.setClassLoader(CheckpointFiles.class.getClassLoader());
        own.set("fs.file.impl", Local.class.getName());
        // Only here: the file system that others have is not replaced.
        own.setBoolean("fs.file.impl.disable.cache", true);
        return own;
    }

    /** Hadoop's local file system, with its checksums. */
    public static final class Local extends LocalFileSystem {
        public Local() {
            super(new Raw());
        }
    }

    private static final class Raw extends RawLocalFileSystem {
        public void setPermission(Path path, FsPermission wanted) throws IOException {
            String text = wanted.getUserAction().SYMBOL + wanted.getGroupAction().SYMBOL + wanted.getOtherAction().SYMBOL;
            Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(text));
        }
    }
}
