// augment_golden OUT GLOB SHAPES TARGET SEED DRAW AUGMENT [MASKS]: the changes of each image of a
// folder per class at that draw, and of its mask if a pattern of masks is given. SHAPES has the
// images' [channels, height, width], TARGET that of the result, AUGMENT the keys of data.augment,
// all in JSON. For each image it writes to OUT a line of JSON, what was drawn, and after it the
// fp32 values [C, H, W]; then for a mask the int64 classes [H, W]. Runs requests
// (support/requests.h).
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>

#include "data/images/transform/image_change.h"
#include "support/requests.h"

namespace {

using namespace accrue::data;
using Json = nlohmann::ordered_json;

Interval interval_in(const Json& json) { return {json.at(0), json.at(1)}; }

ImageShape shape_in(const Json& json) { return {json.at(0), json.at(1), json.at(2)}; }

Augment augment_in(const Json& json) {
  Augment augment;
  if (json.contains("crop")) augment.crop = interval_in(json["crop"]);
  if (json.contains("ratio")) augment.ratio = interval_in(json["ratio"]);
  augment.pad = json.value("pad", 0);
  augment.flip = json.value("flip", 0.0);
  augment.brightness = json.value("brightness", 0.0);
  augment.contrast = json.value("contrast", 0.0);
  augment.saturation = json.value("saturation", 0.0);
  augment.hue = json.value("hue", 0.0);
  augment.erase = json.value("erase", 0.0);
  return augment;
}

Json to_json(const std::optional<PixelBox>& box) {
  return box ? Json{box->top, box->left, box->height, box->width} : Json();
}

Json to_json(const ImageChange& change) {
  constexpr std::array names{"brightness", "contrast", "saturation", "hue"};
  Json colours = Json::array();
  for (const ColourChange& colour : change.colours)
    colours.push_back({names[static_cast<std::size_t>(colour.aspect)], colour.amount});
  return {{"crop", to_json(change.crop)},
          {"shift", {change.shift_y, change.shift_x}},
          {"flipped", change.is_flipped},
          {"colours", colours},
          {"erased", to_json(change.erased)}};
}

void write(std::ofstream& out, const at::Tensor& tensor) {
  out.write(static_cast<const char*>(tensor.const_data_ptr()),
            static_cast<std::streamsize>(tensor.nbytes()));
}

void run(const std::vector<std::string>& words) {
  std::ofstream out(words.at(0), std::ios::binary);
  const Json shapes = Json::parse(words.at(2));
  const ImageShape target = shape_in(Json::parse(words.at(3)));
  const DrawKey key{std::stoull(words.at(4)), std::stoll(words.at(5))};
  const Augment augment = augment_in(Json::parse(words.at(6)));
  const auto source = open_source({.globs = {words.at(1)},
                                   .format = Format::images,
                                   .masks = {words.begin() + 7, words.end()},
                                   .image = target,
                                   .augment = augment,
                                   .seed = key.seed},
                                  "data.train");
  for (std::int64_t index = 0; index < source->size(); ++index) {
    const ImageShape from = shape_in(shapes.at(static_cast<std::size_t>(index)));
    out << to_json(draw_change(augment, key, from, target)).dump() << '\n';
    const accrue::batch::MicroBatch micro =
        source->fetch_drawn(std::span(&index, 1), std::span(&key.draw, 1));
    write(out, micro.inputs);
    if (source->has_masks()) write(out, micro.targets);
  }
}

}  // namespace

int main(int argc, char** argv) { return accrue::testing::run_requests(argc, argv, run); }
