module github.com/zkrecipes/zkrecipes/zkotel

go 1.25.0
