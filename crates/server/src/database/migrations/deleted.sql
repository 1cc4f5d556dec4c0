-- A queue that was deleted while something of it ran is kept until that has ended.
ALTER TABLE queues ADD COLUMN deleted_at BIGINT;
