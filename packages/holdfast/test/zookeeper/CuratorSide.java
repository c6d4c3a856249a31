import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.RetryOneTime;

/**
 * The other side of the tests with Apache Curator.
 *
 *     CuratorSide SERVERS mutex|read-write PATH BOOK WHO ROUNDS   takes the lock again and again, and writes into the book
 *     CuratorSide SERVERS hold|hold-read|hold-write PATH          takes it, prints "held", and gives it up at a line of input
 */
public final class CuratorSide {
  private static void note(Path book, String line) throws Exception {
    Files.write(book, (line + "\n").getBytes(StandardCharsets.UTF_8), StandardOpenOption.APPEND);
  }

  public static void main(String[] args) throws Exception {
    CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], 10_000, 10_000, new RetryOneTime(100));
    client.start();
    client.blockUntilConnected();
    InterProcessMutex mutex = new InterProcessMutex(client, args[2]);
    InterProcessReadWriteLock both = new InterProcessReadWriteLock(client, args[2]);
    if (args[1].startsWith("hold")) {
      InterProcessLock lock =
          args[1].equals("hold") ? mutex : args[1].equals("hold-read") ? both.readLock() : both.writeLock();
      lock.acquire();
      System.out.println("held");
      System.in.read();
      lock.release();
      System.out.println("released");
    } else {
      Path book = Path.of(args[3]);
      int rounds = Integer.parseInt(args[5]);
      System.out.println("ready");
      System.in.read();
      for (int round = 0; round < rounds; round += 1) {
        boolean isMutex = args[1].equals("mutex");
        boolean isRead = !isMutex && round % 3 != 0;
        InterProcessLock lock = isMutex ? mutex : isRead ? both.readLock() : both.writeLock();
        String rest = " " + args[4] + (isRead ? " read" : " write");
        lock.acquire();
        note(book, "enter" + rest);
        Thread.sleep(1);
        note(book, "leave" + rest);
        lock.release();
      }
      System.out.println("done");
    }
    client.close();
  }
}
