using System;

class Inner
{
    static void Connect() { throw new ArgumentException("no route to example.org"); }

    static void Main()
    {
        try { Connect(); }
        catch (ArgumentException e) { throw new InvalidOperationException("the order can't be stored", e); }
    }
}
