package gadget

/** A class of nobody's package that does something when it is read back: what a deserialisation attack brings. */
class Gadget extends Serializable {
  private def readObject(in: java.io.ObjectInputStream): Unit = {
    in.defaultReadObject()
    Gadget.ran = true
  }
}

object Gadget {
  @volatile var ran = false
}
