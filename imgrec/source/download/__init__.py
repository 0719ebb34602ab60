"""Downloads: find the tables, the images and the splits in what a site hands out."""
