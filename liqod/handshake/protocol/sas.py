"""The few words that two people compare: the same on both sides unless another is in the middle.

1,024 words, plain and short, no two of which differ in one letter only; four of them say 40 bits.
A party in between has one try for each meeting that it holds with either side
(``proof.commitment``): at 500 a second, an hour of trying succeeds once in 600,000 times. Pure.
"""

from typing import Final

COUNT: Final = 4
"""Words that are shown."""
BITS: Final = 10
"""Bits of each word."""

_TEXT: Final = """
acorn actor admiral agate airport album alder alley almond alpaca alpine amber anchor ankle
antelope antler anvil apple apricot apron aquarium arcade archer arctic armchair arrow artist
ashes aspen asphalt astronaut atlas attic autumn avenue avocado axle azure baboon backpack badge
bagel baker balcony ballet balloon bamboo banana bandage banjo banner barley barn barrel basil
basket bassoon bathtub battery bauble bayou beacon beard beaver bedrock beehive beetle bell bench
berry bicycle bishop bison blanket blizzard blossom bluebell bobbin bonfire bonnet book border
bottle boulder bouquet bowl boxer bracket braid bramble branch brass bravo bread breeze brick
bridge brigade bronze broom brush bubble bucket buckle buckwheat buffalo bugle bumper bundle
bungalow bunny burrow butter button buzzard cabbage cabin cable cactus cake calendar camel camera
canal canary candle candor candy canoe canvas canyon captain caramel caravan cardigan cargo
carnival carousel carpet carrot cart cascade cashew castle catapult catfish cauldron caviar cedar
celery cellar cello cement chain chalk chamber champion channel chapel charcoal chariot cheese
cheetah cherry chess chestnut chick chimney chipmunk chisel chorus cicada cider cinema cinnamon
circle citadel citrus clam clarinet cliff cloak cloud clover coast cobalt cobra cobweb cockatoo
cocoa coconut coffee colony column comet compass convoy cookie copper coral corner corridor cosmos
cottage cotton cougar county cowboy coyote cradle crane crater crayon creek cricket crimson crocus
crossbow crown cruise crystal cuckoo cucumber cupboard currant curtain cushion custard cutlery
cyclone cymbal cypress daffodil dairy damson dancer dawn decade decoy delta denim dentist desert
desk diamond diary dinghy dingo dinner diver doctor dolphin domino donkey door doorbell dormouse
dough dragon drawer dream drizzle drum duchess dune dungeon dust dynamo eagle earring easel echo
eclipse eel eggplant elbow elephant elixir elk emerald emperor enamel engine ensign envelope epic
equator ermine estuary evening fabric factory falcon fanfare farmer feather fedora fennel fern
ferret festival fiddle field fiesta fig figurine filter finch finger firefly firewood fisher fjord
flagpole flame flamingo flannel flask fleece flint flock flood flounder flour flute folder forest
fork fortress fossil fountain fox foxglove freckle freight fresco frog frost fruit fudge furnace
gadget galaxy galleon gallery gallop garage garden gardenia gargoyle garlic garnet gazebo gazelle
gecko geyser ghost giant gibbon giraffe glacier glass glider globe goblet goggles gold gondola
goose gopher gorilla gosling grain granite grape gravel gravy grotto guava guitar gull gumdrop
haddock hail hammer hammock hamster harbor harness harp harvest hatchet hawk haystack hazel
hazelnut headland heart hedge helmet hemlock herald herb hermit heron herring hexagon hibiscus
hickory highway hiker hillside hinge hippo hobby holly honey hood horizon hornet horse hotel hound
hunter hurdle hyacinth hydrant hyena iceberg icicle igloo iguana indigo inkwell inlet insect
iodine iris iron island isthmus ivory ivy jackal jacket jade jaguar jamboree jar jasmine jasper
javelin jelly jersey jester jewel jigsaw jockey journal juggler juice jukebox jungle juniper kayak
kelp kernel kettle keyboard keystone kimono king kingdom kiosk kitchen kite kitten kiwi knapsack
knee knight knot koala krypton lace lacquer ladder ladle lagoon lamb landmark lantern larch lark
lasso lather laundry laurel lava lavender leaf ledger lemon lemonade lemur lentil leopard letter
lettuce level library lichen lily lime limerick linen lion lizard llama lobster locket locust
lodge log lotus luggage lullaby lumber lunch lynx lyric macaw magenta magnet magnolia magpie
mahogany mammoth mandolin mango manor mansion mantle maple marathon marble marigold marina market
marmot marsh mason mast maze meadow medal melody melon merchant mercury mermaid meteor midnight
milk millet mimosa mineral minnow mint mirror moat molasses mongoose monsoon monument moonbeam
morning mortar mosaic moss moth motor mouse mud muffin mulberry mulch mule mural museum mushroom
music muslin mustang myrtle napkin nature navy nebula necklace nectar needle neon nest nickel
nimbus nomad noodle north nostril notebook novel nugget nurse nutmeg nutshell nylon oak oasis
oatcake oatmeal obelisk oboe ocean ocelot octave octopus office ogre olive omelet onion onyx opal
opera orange orbit orchard orchid organ origami osprey ostrich otter ottoman outpost oven oyster
paddle pagoda paint pajamas palace palette palm pancake panda panther pantry papaya paper paprika
parade parcel parsley parsnip passport pasta pasture patio pavilion peach peacock peanut pear
pebble pelican pencil penguin pennant peony pepper petal pewter pheasant piano pickle picnic
pigeon pigment pillow pilot pine pinwheel pioneer pirate piston pizza planet plank plaster plateau
platinum plaza plum plywood poem polar polka pollen pomelo pond popcorn poppy porch porridge
portrait possum postcard potato pottery powder prairie pretzel prince prism prune pudding pulley
pumpkin puppet purple puzzle pyramid python quail quarry quartet quartz queen quill quince quiver
rabbit raccoon radar radish raft rafter railway rainbow raisin rampart rapids raven ravine razor
recipe reef reindeer relay resin rhino rhubarb rice riverbed robin robot rodeo rooster rope
rosemary rowboat rubber ruby rucksack rudder ruffle rug ruler runner rye safari saffron sage
sailor salad salmon salt sandal sapphire sardine satchel satin saucer sausage savanna scallop
scarf school schooner scissors scooter scorpion scroll sculptor seagull seal seashell season
seaweed seed sequoia sesame shadow shamrock shark shawl sheep shelf sheriff shield shirt shore
shovel shrimp shuttle sidewalk signal silver siren skate skeleton skipper skunk sleeve sloth smoke
snail snake sneaker snow soap soccer sofa soil soldier sparkle sparrow spatula spice spider
spinach spindle spiral sponge spoon spring sprout spruce square squash squid squirrel stable
stadium stair stamp starling statue steam steel steeple stork stove straw street suburb sugar
suitcase summer sundial sunset surf swallow swan sweater switch sycamore syrup taco tadpole talon
tapestry tapioca tarragon tavern teacup teapot temple tennis tent termite terrace thicket thimble
thistle thorn thread throne thumb thunder thyme tiara tiger timber tinsel titan toad toboggan
tomato topaz tortoise toucan towel tractor trail trapeze tray treasure trellis triangle trombone
trophy trout truck trumpet tugboat tulip tuna tundra tunnel turban turbine tureen turkey turmeric
turnip turtle tuxedo twig twilight typhoon ukulele umbrella umpire uncle unicorn uniform urchin
vacuum vagabond valve vanilla vase vault velvet verse vessel viaduct village vinegar vineyard
violet violin viper vision volcano vortex voyage vulture waffle wagon wagtail waiter wallaby
walnut walrus waltz warbler warthog wasp wave wax whale wharf wheat wheel whisker wicker windmill
window winter wolf wombat woodland wool workshop wren wrist yacht yeast yellow yew yodel yogurt
zebra zenith zephyr zigzag zinc zipper zodiac zucchini
"""
WORDS: Final = tuple(_TEXT.split())


def sas_words(digest: bytes) -> str:
    """The words that are shown for a digest: ``copper-lantern-otter-plum``.

    Args:
        digest: at least 5 bytes, of which the first 40 bits count.
    """
    number = int.from_bytes(digest[: COUNT * BITS // 8], "big")
    mask = len(WORDS) - 1
    return "-".join(WORDS[number >> BITS * place & mask] for place in reversed(range(COUNT)))
