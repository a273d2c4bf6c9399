#include "models/layers/option_checks.h"

#include <cmath>
#include <string>

#include "accrue/core/error.h"

namespace accrue::models {

void check_range(const char* operation, const char* key, std::int64_t value, std::int64_t least,
                 std::int64_t most) {
  if (value >= least && value <= most) return;
  throw usage_error(
      operation,
      std::string(key) + " from " + std::to_string(least) + " to " + std::to_string(most),
      std::to_string(value), std::string("another ") + key);
}

void check_at_least_one(const char* operation, const char* key, std::int64_t value) {
  if (value < 1)
    throw usage_error(operation, std::string(key) + " of at least 1", std::to_string(value),
                      std::string("another ") + key);
}

void check_width_of_heads(const char* operation, std::int64_t width, std::int64_t heads) {
  if (width % heads != 0)
    throw usage_error(
        operation,
        "a model.width that is a multiple of model.heads (" + std::to_string(heads) + ')',
        std::to_string(width), "model.width=" + std::to_string((width / heads + 1) * heads));
}

void check_dropout(const char* operation, double dropout) {
  check_fraction(operation, "model.dropout", dropout);
}

void check_fraction(const char* operation, const char* key, double value) {
  if (!(value >= 0 && value < 1))
    throw usage_error(operation, std::string("a ") + key + " in [0, 1)", std::to_string(value),
                      std::string(key) + "=0.1");
}

void check_positive(const char* operation, const char* key, double value) {
  if (!(std::isfinite(value) && value > 0))
    throw usage_error(operation, std::string("a finite ") + key + " greater than 0",
                      std::to_string(value), std::string("another ") + key);
}

void check_parameters(const char* operation, double parameters) {
  constexpr double most_parameters = 1e12;
  if (!(parameters <= most_parameters))
    throw usage_error(operation, "at most 10^12 parameters",
                      std::to_string(parameters) + " of them",
                      "smaller model.layers, model.width, model.context or model.vocab");
}

}  // namespace accrue::models
