package gadget

import java.io.{
  ByteArrayInputStream,
  ByteArrayOutputStream,
  InvalidClassException,
  ObjectInputStream,
  ObjectOutputStream
}
import java.nio.file.{Files, Path}

/**
 * A program that reads all chains as an object stream, as this JVM is set up, and says of each in a
 * line whether it `ran` or was `refused`. With a further argument it makes them first; they are
 * read from its folder.
 */
object ReadChains {
  def main(arguments: Array[String]): Unit = {
    val folder = Path.of(arguments(0))
    if (arguments.length > 1) Chains.all.foreach(make(_, folder))
    Chains.all.foreach(chain => println(s"${chain.name} ${outcome(chain, folder)}"))
    // What a chain has started must not keep the program.
    Runtime.getRuntime.halt(0)
  }

  private def leaves(chain: Chain, folder: Path) = folder.resolve(s"${chain.name}.left")

  private def make(chain: Chain, folder: Path): Unit = {
    val bytes = new ByteArrayOutputStream()
    val stream = new ObjectOutputStream(bytes)
    stream.writeObject(chain.build(chain.mark, leaves(chain, folder)))
    stream.close()
    require(!Chains.ran(chain.mark, leaves(chain, folder), wait = false),
      s"${chain.name} ran " +
        s"before it was read")
    Files.write(folder.resolve(chain.name), bytes.toByteArray)
  }

  private def outcome(chain: Chain, folder: Path): String = {
    Files.deleteIfExists(leaves(chain, folder))
    val error =
      try {
        new ObjectInputStream(
          new ByteArrayInputStream(Files.readAllBytes(folder.resolve(chain.name)))).readObject()
        None
      } catch { case e: Throwable => Some(e) }
    val refused = error.exists(e =>
      e.isInstanceOf[InvalidClassException] &&
        e.getMessage.contains("REJECTED"))
    if (Chains.ran(chain.mark, leaves(chain, folder), wait = !refused)) "ran"
    else if (refused) "refused"
    else s"did nothing: ${error.getOrElse("")}"
  }
}
