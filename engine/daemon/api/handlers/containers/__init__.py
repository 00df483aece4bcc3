"""The endpoints of containers, the everyday ones in one file. An idle daemon loads none of them."""
