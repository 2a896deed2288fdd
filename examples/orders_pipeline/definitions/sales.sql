CREATE MATERIALIZED VIEW sales AS
SELECT item, count(*) AS orders, sum(pieces) AS pieces, sum(cents) / 100 AS total
FROM orders
GROUP BY item
