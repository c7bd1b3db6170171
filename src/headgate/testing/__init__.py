"""What tests of Headgate and of programs that use it are made of. Nothing here is imported by the product."""
