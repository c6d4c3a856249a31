module example.org/holdfast

go 1.19
