#pragma once

#include <cstdint>

namespace accrue::models {

// Each throws a usage Error of `operation` that names the option as in the config ("model.width")
// if it is out of range.

void check_range(const char* operation, const char* key, std::int64_t value, std::int64_t least,
                 std::int64_t most);
void check_at_least_one(const char* operation, const char* key, std::int64_t value);
/// model.width is a multiple of model.heads, which is at least 1.
void check_width_of_heads(const char* operation, std::int64_t width, std::int64_t heads);
/// model.dropout is in [0, 1).
void check_dropout(const char* operation, double dropout);
/// The option is in [0, 1).
void check_fraction(const char* operation, const char* key, double value);
/// The option is finite and greater than 0.
void check_positive(const char* operation, const char* key, double value);
/// There are at most 10^12 parameters.
void check_parameters(const char* operation, double parameters);

}  // namespace accrue::models
