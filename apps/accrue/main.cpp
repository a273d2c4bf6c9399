#include "accrue/cli/main.h"

int main(int count, char** words) { accrue::exit(accrue::main(count, words)); }
