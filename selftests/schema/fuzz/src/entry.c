// SPDX-License-Identifier: GPL-2.0
/*
 * The function that libFuzzer calls with each input. The build gives it the name that libFuzzer
 * knows, ONE_INPUT, and says of what kind the inputs are, by the function INPUT_IS.
 */
#include <stddef.h>
#include <stdint.h>

void input_byte(uint8_t byte);
void INPUT_IS(void);

int ONE_INPUT(const uint8_t *data, size_t size);
int ONE_INPUT(const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		input_byte(data[i]);
	INPUT_IS();
	return 0;
}
