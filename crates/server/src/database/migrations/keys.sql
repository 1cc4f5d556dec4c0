-- What an item is called on clusters. Ids of two servers are alike; this is not. Older items keep a key made of their id.
ALTER TABLE items ADD COLUMN cluster_key TEXT;
