-- Where an item's work was begun: a cluster, or a machine. Only agents that work there can see it.
ALTER TABLE items ADD COLUMN site TEXT;
