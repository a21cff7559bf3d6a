package gadget

/**
 * A class of nobody's package that does something when it is read back: what a deserialisation
 * attack brings.
 */
class Gadget extends Serializable {
  private def readObject(in: java.io.ObjectInputStream): Unit = {
    in.defaultReadObject()
    Gadget.ran = true
  }
}

object Gadget {
  @volatile var ran = false
}

/** What a chain leaves behind, where everybody can see it: a system property. */
object Mark {
  def left(mark: String): Boolean = System.getProperty(mark) != null
  def clear(mark: String): Unit = System.clearProperty(mark)
}
