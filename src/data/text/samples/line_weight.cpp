#include "data/text/samples/line_weight.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

namespace accrue::data {

std::variant<float, LineProblem> weight_of_line(const nlohmann::ordered_json& line,
                                                std::string_view text) {
  const auto stated = line.find("weight");
  if (stated == line.end()) return 1.0F;
  const LinePlace place{.key = "weight"};
  const bool is_long = stated->is_number_float() && is_long_integer_at(text, place);
  const float weight = stated->is_number() && !is_long ? static_cast<float>(stated->get<double>())
                                                       : std::numeric_limits<float>::quiet_NaN();
  if (weight >= 0 && std::isfinite(weight)) return weight;
  const std::string is = is_long ? "an integer of more than 64 bits" : shortened(stated->dump());
  return at_place({"a finite \"weight\" of 0 or more", subject_of(place) + is, "1, or no weight"},
                  text, place);
}

}  // namespace accrue::data
