import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

/**
 * One side of a hand-over with Apache Curator. It does what the lines of its input say, and answers each with the
 * nanoseconds of the machine's monotonic clock: `take`, `giveBack` (when it began to) and `wait` (when it had the lock).
 */
public final class CuratorWorker {
  public static void main(String[] args) throws Exception {
    CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], 30_000, 10_000, new RetryOneTime(100));
    client.start();
    client.blockUntilConnected();
    InterProcessMutex mutex = new InterProcessMutex(client, args[1]);
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      long at;
      switch (line) {
        case "take" -> {
          mutex.acquire();
          at = System.nanoTime();
        }
        case "giveBack" -> {
          at = System.nanoTime();
          mutex.release();
        }
        default -> {
          mutex.acquire();
          at = System.nanoTime();
          mutex.release();
        }
      }
      System.out.println(at);
    }
    client.close();
  }
}
