#include "train/workload/class_remarks.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/words.h"

namespace accrue::train {
namespace {

/// The number of images of each of `classes` classes.
std::vector<std::int64_t> images_by_class(const data::Source& source, std::size_t classes) {
  std::vector<std::int64_t> counts(classes);
  for (std::int64_t i = 0; i < source.size(); ++i)
    if (const auto number = source.class_of(i)) ++counts.at(static_cast<std::size_t>(*number));
  return counts;
}

}  // namespace

std::vector<std::string> class_remarks(const Datasets& data) {
  const std::vector<std::string> names = data.train->classes();
  if (!data.val || names.empty()) return {};
  const std::vector<std::int64_t> trained = images_by_class(*data.train, names.size());
  const std::vector<std::int64_t> held_out = images_by_class(*data.val, names.size());
  constexpr std::size_t most = 5;
  std::vector<std::string> found;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (trained[i] == 0 && held_out[i] > 0)
      found.push_back("'" + names[i] + "' (" + counted(held_out[i], "image") + ")");
  if (found.empty()) return {};
  return {"nothing is trained on of class " + first_few(std::move(found), most) +
          ", as all is held out: try more images, a smaller data.val_fraction, or files of their "
          "own in data.val"};
}

}  // namespace accrue::train
