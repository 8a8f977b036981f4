package layout

import "strconv"

// AppendRanges appends sorted numbers to b as ranges: "0-3,5".
func AppendRanges[N int | int32](b []byte, numbers []N) []byte {
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(numbers[i]), 10)
		if j > i {
			b = strconv.AppendInt(append(b, '-'), int64(numbers[j]), 10)
		}
		i = j + 1
	}
	return b
}
