-- Text is ordered by its bytes here already.
SELECT 1;
