"""Which request takes its next step when: gates at the door, and rounds of one step each."""
